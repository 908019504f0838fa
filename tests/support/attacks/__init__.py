"""What tests of attacks share: fuzz frames, who sends them, and what an attack may cost."""
