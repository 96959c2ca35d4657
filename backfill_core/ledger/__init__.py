"""The ledger: who holds what, what is sealed, what was published when, by whom and why; of many datasets."""
