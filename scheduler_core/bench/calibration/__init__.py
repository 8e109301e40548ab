"""The cost model's machine "smollm2-cpu" fitted to measured ticks of the real model."""
