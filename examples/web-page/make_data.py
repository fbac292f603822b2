"""Makes site/: a first page, and a page with a table of rainfall for each town."""

from pathlib import Path

FOLDER = Path(__file__).parent / "site"
RAIN = {
    "Oslo": [55, 41, 49, 46, 62, 73, 82, 96, 90, 94, 79, 58],
    "Rome": [67, 73, 58, 81, 53, 34, 19, 37, 73, 113, 115, 81],
    "Beijing": [3, 5, 9, 22, 37, 71, 170, 113, 56, 27, 10, 3],
}
# A page of another host, which the session may not reach.
ELSEWHERE = "http://archive.example.com/rain.html"


def page(title: str, body: str) -> str:
    return f'<!doctype html>\n<html><head><meta charset="utf-8"><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n{body}\n</body></html>\n'


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    links = "".join(f'<li><a href="towns/{town.lower()}.html">{town}</a></li>\n' for town in RAIN)
    links += f'<li><a href="{ELSEWHERE}">Older years</a></li>\n'
    write("index.html", page("Rainfall", f"<ul>\n{links}</ul>"))
    for town, values in RAIN.items():
        rows = "".join(f"<tr><td>{month}</td><td>{value}</td></tr>\n" for month, value in enumerate(values, 1))
        table = f"<table>\n<tr><th>month</th><th>mm</th></tr>\n{rows}</table>"
        write(f"towns/{town.lower()}.html", page(town, table))


def write(name: str, text: str) -> None:
    path = FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
