"""The simulation: that it passes a sound broker, and that it catches a broken one."""
