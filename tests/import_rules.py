"""A contract for import-linter: packages that import nothing but themselves and the standard library."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from importlinter import Contract, ContractCheck, fields, output

if TYPE_CHECKING:
    from grimp import ImportGraph


class StandardLibraryOnly(Contract):
    """`packages` import only each other and the standard library, but for the lines in `extras`.

    extras: `importer -> imported`, one for each optional dependency and the single module that may know it.
    """

    packages: Any = fields.ListField(subfield=fields.StringField())
    extras: Any = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002  the signature is import-linter's
        """Look at every import that leaves the packages."""
        allowed = {*self.packages, *sys.stdlib_module_names}
        faults = sorted(
            f"{importer} -> {imported}"
            for importer in graph.modules
            if importer.split(".")[0] in self.packages
            for imported in graph.find_modules_directly_imported_by(importer)
            if imported.split(".")[0] not in allowed
        )
        faults = [fault for fault in faults if fault not in (self.extras or ())]
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name the imports that are not of the standard library."""
        for fault in check.metadata["faults"]:
            output.print_error(f"{fault} is not of the standard library")
