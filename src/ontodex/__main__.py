"""`python -m ontodex` is the command `ontodex`."""

from ontodex.cli import main

main()
