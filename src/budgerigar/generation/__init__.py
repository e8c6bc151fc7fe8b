"""From logits to text: sampling, the one loop, overflow, stopping, streaming."""
