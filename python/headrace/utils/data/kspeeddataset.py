"""The names of kspeed.utils.data.kspeeddataset."""

from headrace.kspeed import KSpeedFolder, KSpeedImageFolder

__all__ = ["KSpeedFolder", "KSpeedImageFolder"]
