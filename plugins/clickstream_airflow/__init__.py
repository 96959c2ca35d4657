"""The teaching stand in Airflow: its tasks, on `backfill_airflow` and the clickstream. It stays in the checkout."""
