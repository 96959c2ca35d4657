"""Rerun past days without counting them twice: the pure core, standard library only."""
