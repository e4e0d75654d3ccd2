"""Helpers that the modules of `formats` share: nothing here knows a format by name."""
