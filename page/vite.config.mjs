// One file that Airflow's page imports. React, Chakra and the router are the page's own, found as globals.
import { defineConfig } from "vite";

const globals = {
  react: "React",
  "react/jsx-runtime": "ReactJSXRuntime",
  "react-router-dom": "ReactRouterDOM",
  "@chakra-ui/react": "ChakraUI",
};

export default defineConfig({
  build: {
    outDir: "../plugins/backfill_airflow/page/built",
    emptyOutDir: true,
    target: "es2022",
    lib: { entry: "src/main.tsx", formats: ["iife"], name: "Partitions_", fileName: () => "partitions.js" },
    rollupOptions: { external: Object.keys(globals), output: { globals } },
  },
});
