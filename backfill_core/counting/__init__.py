"""Counting a partition file: engines that are fast, worker processes, and the strict parser that alone decides."""
