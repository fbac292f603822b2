"""A tool of your own: every public function of this folder is one."""

import dataclasses
from typing import Literal

# Degrees Celsius of the next days. A real tool would ask a service.
FORECAST = {"Oslo": [4.5, 6.0, 3.5], "Rome": [19.0, 21.5, 20.0], "Beijing": [12.0, 9.5, 14.0]}


@dataclasses.dataclass
class Day:
    day: int
    degrees: float
    unit: str


def weather_query(city: Literal["Oslo", "Rome", "Beijing"], days: int = 3, unit: Literal["C", "F"] = "C") -> list[Day]:
    """The temperature of the next days in a city.

    Args:
        city: The city.
        days: How many days, 1 to 3.
        unit: The scale.
    """
    if not 1 <= days <= 3:
        raise ValueError("there is a forecast for 1 to 3 days")
    degrees = FORECAST[city][:days]
    if unit == "F":
        degrees = [celsius * 9 / 5 + 32 for celsius in degrees]
    return [Day(day, value, unit) for day, value in enumerate(degrees, 1)]
