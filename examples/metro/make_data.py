"""Makes two files about a small metro: a straight line, a ring and a vertical line, with two shared stations."""

import json
import math
from pathlib import Path

FOLDER = Path(__file__).parent / "data"


def lines() -> list:
    straight = [(116.18 + 0.02 * i, 39.907, f"一号{i + 1}") for i in range(12)]
    angles = [2 * math.pi * i / 10 for i in range(10)]
    ring = [(116.39 + 0.05 * math.cos(a), 39.92 + 0.035 * math.sin(a), f"环线{i + 1}") for i, a in enumerate(angles)]
    vertical = [(116.36, 39.84 + 0.017 * i, f"四号{i + 1}") for i in range(10)]
    ring[5] = (116.34, 39.907, "一号9")
    vertical[4] = (116.36, 39.907, "一号10")
    return [("900000069871", "1号线", straight), ("110100023339", "2号线", ring), ("110100023340", "4号线", vertical)]


def main() -> None:
    of_station: dict = {}
    for line, _, stations in lines():
        for *_, name in stations:
            of_station.setdefault(name, []).append(line)
    ids = {name: f"BV{number:08d}" for number, name in enumerate(of_station, 1)}
    drawing, times = [], []
    for line, title, stations in lines():
        drawn = []
        for at, (x, y, name) in enumerate(stations):
            drawn.append(
                {
                    "rs": f"{100 + at} 200",
                    "udpx": "",
                    "sl": f"{x:.6f},{y:.6f}",
                    "udsi": f"{line}{at:03d}",
                    "udli": line,
                    "n": name,
                    "sid": ids[name],
                    "r": "|".join(of_station[name]),
                    "t": "2" if len(of_station[name]) > 1 else "1",
                    "si": f"{line}{at:03d}",
                }
            )
        drawing.append({"st": drawn, "ln": title, "ls": line})
        last = stations[-1][2]
        day = [{"ls": line, "lt": "23:10", "n": last, "ft": "05:10"}]
        times.append({"a": "", "st": [{"ac": "110105", "d": day, "si": f"{line}{at:03d}"} for at in range(len(stations))]})
    write("1100_drw_beijing.json", {"s": "合成地铁", "i": "1100", "l": drawing})
    write("1100_info_beijing.json", {"i": "1100", "l": times})


def write(name: str, value: dict) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
