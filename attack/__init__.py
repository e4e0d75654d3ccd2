"""Attack ontodex with generated inputs, damage, abuse and kills: `make attack`.

`campaign` has the shared types, each other module one campaign, and `__main__` runs them. Every
campaign stops by itself, uses only loopback addresses, and repeats with the same seed.
"""
