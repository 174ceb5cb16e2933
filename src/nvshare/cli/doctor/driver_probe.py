"""Calls the CUDA driver in a process of its own: a faulty driver can end the process that calls it.

Prints one line of JSON. `error` is there if the driver could not be used."""

import ctypes
import json

MANAGED_MEMORY = 83
CONCURRENT_MANAGED_ACCESS = 89


def ask() -> dict[str, object]:
    """The driver's version, and for each device the features that nvshare needs."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"error": f"libcuda.so.1 cannot be loaded: {error}"}
    result = driver.cuInit(0)
    if result:
        return {"error": f"cuInit fails: {_name(driver, result)}"}
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    devices = [
        {
            "managed": _attribute(driver, MANAGED_MEMORY, index),
            "concurrent": _attribute(driver, CONCURRENT_MANAGED_ACCESS, index),
        }
        for index in range(count.value)
    ]
    return {"version": version.value, "devices": devices}


def _attribute(driver: ctypes.CDLL, attribute: int, device: int) -> int:
    value = ctypes.c_int()
    return value.value if not driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) else 0


def _name(driver: ctypes.CDLL, result: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorName(result, ctypes.byref(text))
    return text.value.decode() if text.value else f"error {result}"


if __name__ == "__main__":
    print(json.dumps(ask()))
