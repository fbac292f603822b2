//! A query against a real PostgreSQL, from a cell that may reach it and nothing else.

use super::clients::session_with_packages;
use super::postgres::{PASSWORD, Postgres};
use super::servers::{fails, prints};

const LOGINS: &str = "
import psycopg
from datetime import date
database = psycopg.connect(host='localhost', port=PORT, user='cellblock', password='PASSWORD', dbname='postgres', connect_timeout=10)
days = {'u001': [1, 2, 3, 4, 9], 'u002': [1, 3, 5, 7], 'u003': [1, 2, 3], 'u004': [6, 7]}
with database.cursor() as cursor:
    cursor.execute('CREATE TABLE logins (user_id text, day date)')
    for user, numbers in days.items():
        # Someone who logs in twice a day has still been there on one day.
        cursor.executemany('INSERT INTO logins VALUES (%s, %s)', [(user, date(2025, 1, day)) for day in numbers * 2])
database.commit()
";

const STREAKS: &str = r"
rows = database.execute('''
    WITH days AS (SELECT DISTINCT user_id, day FROM logins),
    streaks AS (SELECT user_id, day, day - (row_number() OVER (PARTITION BY user_id ORDER BY day))::int AS streak FROM days)
    SELECT user_id, min(day), max(day), count(*) FROM streaks GROUP BY user_id, streak HAVING count(*) >= 3 ORDER BY user_id
''').fetchall()
for row in rows:
    print(*row)
";

#[test]
fn a_cell_finds_users_with_three_login_days_in_a_row_in_a_real_postgresql() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let session = session_with_packages(&[format!("tcp://localhost:{}", postgres.port)]);
    let logins = LOGINS
        .replace("PORT", &postgres.port.to_string())
        .replace("PASSWORD", PASSWORD);
    prints(&session, &logins);
    assert_eq!(
        prints(&session, STREAKS),
        "u001 2025-01-01 2025-01-04 4\nu003 2025-01-01 2025-01-03 3\n"
    );
    // A session that was not given this host does not find it.
    let sealed = session_with_packages(&[]);
    let message = fails(&sealed, &logins);
    assert!(message.contains("OperationalError"), "{message}");
}
