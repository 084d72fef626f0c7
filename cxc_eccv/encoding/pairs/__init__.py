"""Cross-encoders: pairs to scores, and ranked lists ranked anew."""
