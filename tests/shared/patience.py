"""How long tests wait for another process: machines that run tests are often busy."""

PATIENCE = 120  # seconds
