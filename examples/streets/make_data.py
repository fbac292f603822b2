"""Makes the three tables of streets: 8 connected ones, 3 far away, one in another city, one without a postal code."""

from pathlib import Path

FOLDER = Path(__file__).parent / "data"
ADDRESS_COLUMNS = "postal code |city |street |x min|x max|y min|y max|house min|house max|house odd|house even"
HOUSE_COLUMNS = "postal code|city|street|house number|x|y|country"
STREET_COLUMNS = "street name|city|country|state|province|postal code"


def main() -> None:
    streets = [(f"主街{i + 1}", 116.40, 39.90 + 0.0008 * i, "北京市", "100000") for i in range(8)]
    streets += [(f"孤街{i + 1}", 116.60, 40.00 + 0.0008 * i, "北京市", "100000") for i in range(3)]
    streets += [("津街1", 117.2, 39.1, "天津市", "100000"), ("缺邮街", 116.40, 39.8992, "北京市", "")]
    addresses, houses, names = [], [], []
    for name, x, y, state, code in streets:
        names.append((name, "北京市", "中国", state, "北京", code))
        for i in range(5):
            at = x + 0.0006 * i
            addresses.append(("100000", "北京市", name, at, at + 0.0002, y, y + 0.0002, 1, 99, "1", "2"))
            houses.append(("100000", "北京市", name, i + 1, at, y + 0.0003, "中国"))
    write("CN-addresses-beijing.tsv", ADDRESS_COLUMNS, addresses)
    write("CN-houses-beijing.tsv", HOUSE_COLUMNS, houses)
    write("CN-streets-beijing.tsv", STREET_COLUMNS, names)


def write(name: str, columns: str, rows: list) -> None:
    FOLDER.mkdir(exist_ok=True)
    lines = [columns.split("|"), *rows]
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    (FOLDER / name).write_text(text, encoding="utf-8-sig")


if __name__ == "__main__":
    main()
