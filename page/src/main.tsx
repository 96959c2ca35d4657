// The component that Airflow's page shows: in the navigation for all datasets, on a DAG for those that it writes.

import { Box } from "@chakra-ui/react";
import { useEffect, useState } from "react";
import { useSearchParams } from "react-router-dom";

import { DatasetPage } from "./DatasetPage.tsx";
import { NoDataset, OverviewPage } from "./Overview.tsx";
import { Empty, PALETTE, Program, Trouble, Waiting } from "./parts.tsx";
import { useAnswer, type Overview } from "./server.ts";

const MINUTE = 60;

/** Airflow draws a bundle anew, once, when the address first changes after it was loaded, and all state is lost. */
let drawnAnew = false;

function Partitions({ dagId }: { dagId?: string }) {
  const [ready, setReady] = useState(drawnAnew);
  const [, setParams] = useSearchParams();
  useEffect(() => {
    if (drawnAnew) return undefined;
    // Let it be now, before there is any; where it is not drawn anew, go on.
    drawnAnew = true;
    setParams((same) => same, { replace: true });
    const timer = setTimeout(() => setReady(true), 100);
    return () => clearTimeout(timer);
  }, []);
  return (
    <Box as="main" css={PALETTE} p={{ base: 3, md: 4 }} h="100%" overflowY="auto">
      {ready && <Shown dagId={dagId} />}
    </Box>
  );
}

function Shown({ dagId }: { dagId: string | undefined }) {
  const [params] = useSearchParams();
  const chosen = params.get("dataset");
  const overview = useAnswer<{ datasets: Overview[]; failures: string[] }>(
    chosen === null ? `datasets${dagId === undefined ? "" : `?dag_id=${encodeURIComponent(dagId)}`}` : undefined,
    MINUTE,
  );
  if (chosen !== null) return <DatasetPage key={chosen} name={chosen} dagId={undefined} />;
  const { told, failure } = overview;
  if (failure?.status === 404) return <NoLedger message={failure.message} />;
  if (told === undefined) return failure ? <Trouble failure={failure} /> : <Waiting what="Reading the ledger" />;
  const [only, ...others] = told.datasets;
  const unreachable = told.failures.map((message) => (
    <Trouble key={message} failure={{ title: "A ledger can't be reached", message, status: 503 }} />
  ));
  if (only === undefined) {
    return (
      <>
        {unreachable}
        {(dagId !== undefined || unreachable.length === 0) && <NoDataset dagId={dagId} />}
      </>
    );
  }
  if (dagId !== undefined && others.length === 0) return <DatasetPage name={only.dataset} dagId={dagId} />;
  return (
    <>
      {failure && <Trouble failure={failure} />}
      {unreachable}
      <OverviewPage datasets={told.datasets} dagId={dagId} />
    </>
  );
}

function NoLedger({ message }: { message: string }) {
  return (
    <Empty title="No ledger yet">
      <p>{message}</p>
      <p>
        The ledger is kept in a PostgreSQL database or an SQLite file that an Airflow connection names. Make one of the type
        “Backfill store” named backfill_default, in Admin, Connections, or by:
      </p>
      <Program>{`airflow connections add backfill_default \\
  --conn-type backfill --conn-host postgresql://host/database`}</Program>
    </Empty>
  );
}

// Airflow takes what the bundle leaves here. Under the name of our own it is ours whatever else was loaded before.
Object.assign(globalThis, { AirflowPlugin: Partitions, Partitions });
