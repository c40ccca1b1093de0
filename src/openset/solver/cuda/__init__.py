"""The grid engine and prediction on a GPU; nothing of CUDA is imported until it is requested."""

from .._tuning import SIMULATED, array_module, free_memory, module_of, on_gpu, to_host

__all__ = ["SIMULATED", "array_module", "free_memory", "module_of", "on_gpu", "to_host"]
