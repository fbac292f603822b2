"""Makes data/北京景点等级和建议游玩时长.csv: 15 good rows, one with a rating that there is not, one with a broken coordinate."""

import csv
from pathlib import Path

HOURS_OF_3A = [1.5, 1.0, 1.5, 1.0, 1.0, 1.5, 1.0, 1.0, 1.5]


def main() -> None:
    rows = [("故宫博物院", "5A", "open", "116.397026,39.918058", 4.0)]
    for i in range(5):
        place = f"{116.30 + 0.03 * i:.6f},{39.90 + 0.015 * i:.6f}"
        rows.append((f"合成四A景区{i + 1}", "4A", "open", place, 2.5 if i < 3 else 2.0))
    for i, hours in enumerate(HOURS_OF_3A):
        place = f"{116.25 + 0.03 * i:.6f},{39.85 + 0.02 * (i % 5):.6f}"
        rows.append((f"合成三A景区{i + 1}", "3A", "open", place, hours))
    rows.insert(7, ("坏数据一", "6A", "open", "116.3,39.9", 1.0))
    rows.insert(11, ("坏数据二", "3A", "open", "not-a-coordinate", 1.0))
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    with open(folder / "北京景点等级和建议游玩时长.csv", "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["景区名称", "星级", "开放状态", "经纬度", "建议游玩时长"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
