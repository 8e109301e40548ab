"""What computes tokens: synthetic, replayed from a recording, or a real model."""
