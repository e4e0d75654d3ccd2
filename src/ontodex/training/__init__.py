"""The one training loop of all networks, and its parts.

`loop` trains a network. It uses `schedule` (learning rate), `optimisers`, `sparse_gradients` (of
tables of which a step reads few rows), `half_rows` (of such tables in bf16), `averages` (of the
weights), `checkpoints`, `log`, `distributed` (processes of torchrun) and `clock` (seconds over
restarts).
"""
