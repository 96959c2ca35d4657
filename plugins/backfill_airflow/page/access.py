"""What a user of Airflow may see and change here: what Airflow's own permissions on the DAGs say, and nothing more."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails, DagDetails
from airflow.models.dag import DagModel

from backfill_airflow.compat import conf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from sqlalchemy.orm import Session

    from backfill_airflow.page.dags import Writer


class Access:
    """One user's rights, as Airflow's auth manager says them.

    Who may read a DAG that writes a dataset may look at the dataset. Who may edit all of these DAGs may change it.
    Where there is none, an administrator may do both.
    """

    def __init__(self, user: Any, conn_id: str, writers: Sequence[Writer], session: Session) -> None:
        self.name: str = user.get_name()
        self._user = user
        self._conn_id = conn_id
        self._dag_ids = [writer.dag_id for writer in writers]
        self._teams: dict[str, str | None] = {}
        if conf.getboolean("core", "multi_team", fallback=False):
            self._teams = DagModel.get_dag_id_to_team_name_mapping(self._dag_ids, session=session)

    def may_read(self) -> bool:
        """Return whether the user may look at the dataset."""
        return bool(self._readable) if self._dag_ids else self.is_admin()

    def may_see(self, dag_id: str) -> bool:
        """Return whether the user may read this DAG."""
        return dag_id in self._readable

    @cached_property
    def _readable(self) -> set[str]:
        return {dag_id for dag_id in self._dag_ids if self._may("GET", dag_id)}

    def why_not(self) -> str | None:
        """Return None where the user may change the dataset, else why not, in words."""
        if not self._dag_ids:
            return None if self.is_admin() else "No DAG writes it, so only an administrator may change it"
        denied = [dag_id for dag_id in self._dag_ids if not self._may("PUT", dag_id)]
        if not denied:
            return None
        which = next((f"the DAG {dag_id}" for dag_id in denied if self.may_see(dag_id)), "all DAGs that write it")
        return f"You may look: only who may edit {which} may change it"

    def _may(self, method: ResourceMethod, dag_id: str) -> bool:
        details = DagDetails(id=dag_id, team_name=self._teams.get(dag_id))
        return bool(get_auth_manager().is_authorized_dag(method=method, details=details, user=self._user))

    def is_admin(self) -> bool:
        """Return whether the user has the role Admin; where roles aren't known so, may edit the ledger's connection."""
        user = self._user
        several = [getattr(role, "name", role) for role in getattr(user, "roles", None) or ()]
        named = [str(role).lower() for role in (getattr(user, "role", None), *several) if role]
        if named:
            return "admin" in named
        details = ConnectionDetails(conn_id=self._conn_id)
        return bool(get_auth_manager().is_authorized_connection(method="PUT", details=details, user=user))
