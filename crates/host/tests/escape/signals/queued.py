# canary: death
# A signal with a value.
import ctypes

ctypes.CDLL(None).sigqueue(canary["victim"], 9, ctypes.c_void_p(0))
