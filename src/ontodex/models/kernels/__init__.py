"""GPU operations written in Triton, where they are clearly faster than PyTorch's.

lstm (many BiLSTMs side by side) and pooling (maxima of many chunks). Each has a plain PyTorch form
in `layers` or in the system that uses it, which runs on a CPU and is the reference of its tests.
"""
