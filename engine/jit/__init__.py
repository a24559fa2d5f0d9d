"""How kernels are compiled and cached, and what tells two kernels apart."""
