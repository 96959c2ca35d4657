"""All DAGs of a dataset in one line: each day, a range by its form, seal, unseal, amend, late."""

from shop import orders_daily

from backfill_airflow.factory import dataset_dags

dataset_dags(orders_daily, select="sql/orders_daily.sql", schedule="30 2 * * *")
