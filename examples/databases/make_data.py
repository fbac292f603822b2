"""Makes data/shop.sql: users and their orders, in SQL that SQLite, PostgreSQL and MariaDB take."""

from pathlib import Path

USERS = [("u001", "Anna"), ("u002", "Björn"), ("u003", "王芳"), ("u004", "Dan")]
ORDERS_OF = {"u001": [120, 80, 45.5, 9], "u002": [300], "u003": [15, 60, 220], "u004": []}


def main() -> None:
    lines = [
        "CREATE TABLE users (id VARCHAR(8) PRIMARY KEY, name VARCHAR(40) NOT NULL);",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id VARCHAR(8) NOT NULL REFERENCES users(id), amount NUMERIC(10, 2) NOT NULL);",
    ]
    lines += [f"INSERT INTO users VALUES ('{id}', '{name}');" for id, name in USERS]
    orders = [(user, amount) for user, amounts in ORDERS_OF.items() for amount in amounts]
    lines += [f"INSERT INTO orders VALUES ({n}, '{user}', {amount});" for n, (user, amount) in enumerate(orders, 1)]
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    (folder / "shop.sql").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
