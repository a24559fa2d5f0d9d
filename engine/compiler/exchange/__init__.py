"""Exchanges: what is sent, when, by which code, and what it costs."""
