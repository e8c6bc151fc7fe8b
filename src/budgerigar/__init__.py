"""Budgerigar: train, run and look inside language models."""

__version__ = "0.1.0"
