"""A dataset, defined once: each DAG file beside this one imports it. `shop` is an Airflow connection."""

from backfill_core.dataset import Dataset, SqlTable

orders_daily = Dataset(
    "shop.orders_daily",
    SqlTable("shop", "orders_daily", day="dt"),
    measures={"orders": "sum(orders)", "amount": "sum(amount)"},
    unique=["customer"],
    digest="always",
    timezone="UTC",
)
