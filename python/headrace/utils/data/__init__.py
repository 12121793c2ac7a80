"""Where kspeed keeps its names."""
