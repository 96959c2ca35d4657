"""Safe backfills in Airflow: claims, replacement, seals and corrections as a hook, operators and a sensor."""
