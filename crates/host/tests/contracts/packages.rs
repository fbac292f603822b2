//! What needs the default environment: tables, figures, arrays. Each name says so.

use crate::support::{Python, open, packages};
use cellblock_protocol::{MimeBundle, Status, Strategy, VariableChanges};
use serde_json::{Value, json};

fn session() -> Python {
    open(packages())
}

fn imported() -> Python {
    open(packages().import("np").import("pd").import("plt"))
}

/// The picture of a bundle, which must be one.
fn assert_is_png(bundle: &MimeBundle) {
    let base64 = bundle
        .text("image/png")
        .unwrap_or_else(|| panic!("no picture: {bundle:?}"));
    assert!(base64.starts_with("iVBORw0KGgo"), "{}", &base64[..20]);
    assert!(base64.len() > 1000, "an empty picture");
}

#[test]
fn with_packages_everything_that_is_promised_can_be_imported() {
    let code = "import numpy, pandas, scipy.stats, matplotlib.pyplot, networkx, sklearn.linear_model, pydantic, requests
'all'";
    assert_eq!(session().value(code), "'all'");
}

#[test]
fn with_packages_r33_the_short_names_are_bound_beforehand() {
    assert_eq!(
        imported().value("np.__name__, pd.__name__, plt.__name__"),
        "('numpy', 'pandas', 'matplotlib.pyplot')"
    );
}

#[test]
fn with_packages_r35_a_new_session_has_fresh_entropy() {
    let code = "import numpy as np\nnp.random.random(), np.random.default_rng().random()";
    assert_ne!(session().value(code), session().value(code));
}

mod tables {
    use super::*;

    fn list(json: &Value) -> &[Value] {
        json.as_array().unwrap()
    }

    #[test]
    fn with_packages_a_data_frame_has_html_and_structured_rows() {
        let code = "import pandas as pd
pd.DataFrame({'name': ['Ada', None], 'n': [1, 2], 'x': [0.5, float('nan')], 'when': pd.to_datetime(['2024-01-02', None])}, index=['a', 'b'])";
        let value = imported().good(code).value.unwrap();
        let dtype = session().value(
            "import pandas as pd
str(pd.Series(['a', None]).dtype), str(pd.to_datetime(['2024-01-02', None]).dtype)",
        );
        let dtypes: Vec<&str> = dtype
            .trim_matches(['(', ')'])
            .split(", ")
            .map(|text| text.trim_matches('\''))
            .collect();
        assert_eq!(
            value.mime.get(MimeBundle::TABLE).unwrap(),
            json!({
                "columns": [
                    {"name": "name", "dtype": dtypes[0]},
                    {"name": "n", "dtype": "int64"},
                    {"name": "x", "dtype": "float64"},
                    {"name": "when", "dtype": dtypes[1]},
                ],
                "index": ["a", "b"],
                "rows": [["Ada", 1, 0.5, "2024-01-02T00:00:00"], [null, 2, null, null]],
                "total_rows": 2,
                "total_columns": 4,
            })
        );
        let html = value.mime.text("text/html").unwrap();
        assert!(
            html.contains("<table") && html.contains("<td>Ada</td>"),
            "{html}"
        );
        assert_eq!(value.mime.text("text/plain"), Some(value.repr.as_str()));
        assert!(value.repr.contains("Ada"), "{}", value.repr);
    }

    #[test]
    fn with_packages_a_series_is_a_table_of_one_column() {
        let value = imported()
            .good("pd.Series([1.5, 2.5], name='price')")
            .value
            .unwrap();
        assert_eq!(
            value.mime.get(MimeBundle::TABLE).unwrap(),
            json!({
                "columns": [{"name": "price", "dtype": "float64"}], "index": [0, 1], "rows": [[1.5], [2.5]],
                "total_rows": 2, "total_columns": 1,
            })
        );
        assert!(
            value
                .mime
                .text("text/html")
                .unwrap()
                .contains("<td>1.5</td>")
        );
    }

    #[test]
    fn with_packages_a_large_table_is_cut_and_says_how_large_it_is() {
        let value = imported()
            .good("pd.DataFrame(np.arange(10**6).reshape(-1, 100))")
            .value
            .unwrap();
        let table = value.mime.get(MimeBundle::TABLE).unwrap();
        assert_eq!(
            (&table["total_rows"], &table["total_columns"]),
            (&json!(10_000), &json!(100))
        );
        assert_eq!(
            (list(&table["rows"]).len(), &list(&table["rows"][1])[..2]),
            (50, &[json!(100), json!(101)][..])
        );
        assert!(serde_json::to_string(&value).unwrap().len() < 200_000);
    }

    #[test]
    fn with_packages_odd_tables_are_tables_too() {
        let session = imported();
        for code in [
            "pd.DataFrame()",
            "pd.DataFrame({'a': []})",
            "pd.DataFrame([[1, 2]], columns=['same', 'same'])",
            "pd.DataFrame({('a', 1): [1]}, index=pd.MultiIndex.from_tuples([('x', 1)]))",
            "pd.DataFrame({'mixed': [1, 'a', [2], {3: 4}, object]})",
            "pd.DataFrame({'c': pd.Categorical(['a', 'b'])})",
            "pd.Series([2**70, -1])",
        ] {
            let value = session.good(code).value.unwrap();
            let table = value
                .mime
                .get(MimeBundle::TABLE)
                .unwrap_or_else(|| panic!("{code}: {value:?}"));
            assert_eq!(
                list(&table["rows"]).len(),
                list(&table["index"]).len(),
                "{code}: {table}"
            );
        }
    }

    #[test]
    fn with_packages_display_of_a_table_is_the_same_as_its_value() {
        let session = imported();
        session.good("frame = pd.DataFrame({'a': [1]})");
        let shown = session.good("display(frame)").displays;
        assert_eq!(shown, [session.good("frame").value.unwrap().mime]);
    }
}

mod figures {
    use super::*;

    #[test]
    fn with_packages_r29_plt_show_puts_the_figure_into_displays_and_warns_of_nothing() {
        let result = session().good(
            "import matplotlib.pyplot as plt
plt.plot([1, -2, 3])
plt.title('Größe')
plt.show()",
        );
        assert_eq!(
            (result.displays.len(), result.output.as_str(), result.value),
            (1, "", None)
        );
        assert_is_png(&result.displays[0]);
        assert_eq!(
            result.displays[0].text("text/plain"),
            Some("<Figure 640x480>")
        );
    }

    #[test]
    fn with_packages_r29_matplotlib_is_headless_and_writes_a_plain_minus() {
        let code = "import matplotlib, matplotlib.pyplot as plt
matplotlib.get_backend().lower(), plt.rcParams['axes.unicode_minus']";
        assert_eq!(session().value(code), "('agg', False)");
    }

    #[test]
    fn with_packages_r29_chinese_labels_are_drawn_where_the_machine_has_a_font() {
        let font = cellblock_env::cjk_font(&cellblock_env::Variables::from_process());
        let result =
            session().good("import matplotlib.pyplot as plt\nplt.title('中文标题')\nplt.show()");
        assert_is_png(&result.displays[0]);
        match font {
            Some(_) => assert_eq!(result.stderr, ""),
            None => println!("not looked at: this machine has no font with Chinese glyphs"),
        }
    }

    #[test]
    fn with_packages_a_figure_left_open_is_shown_at_the_end_of_the_cell_once() {
        let session = imported();
        let first =
            session.good("figure, axes = plt.subplots()\naxes.plot([1, 2])\nprint('drawn')");
        assert_eq!(first.displays.len(), 1);
        assert_is_png(&first.displays[0]);
        assert_eq!(session.good("1").displays, []);
    }

    #[test]
    fn with_packages_a_figure_that_is_the_value_is_not_shown_twice() {
        let result = imported().good("figure, axes = plt.subplots()\naxes.plot([1, 2])\nfigure");
        assert_eq!(result.displays, []);
        assert_is_png(&result.value.unwrap().mime);
    }

    #[test]
    fn with_packages_several_figures_come_in_order() {
        let code = "for size in (2, 3):
    plt.figure(figsize=(size, 1))
    plt.plot([1, size])
plt.show()";
        let plain: Vec<_> = imported()
            .good(code)
            .displays
            .iter()
            .map(|shown| shown.text("text/plain").unwrap().to_owned())
            .collect();
        assert_eq!(plain, ["<Figure 200x100>", "<Figure 300x100>"]);
    }

    #[test]
    fn with_packages_a_figure_saved_to_a_file_is_a_new_file() {
        let result = imported().good("plt.plot([1, 2])\nplt.savefig('plot.png')\nplt.close()");
        let [file] = result.files.created.as_slice() else {
            panic!("{:?}", result.files)
        };
        assert_eq!(
            (file.path.as_str(), file.mime.as_str()),
            ("plot.png", "image/png")
        );
        assert!(file.bytes > 1000);
        assert_eq!(result.displays, []);
    }

    #[test]
    fn with_packages_a_cell_that_fails_still_shows_its_figure() {
        let result = imported().run("plt.plot([1, 2])\n1/0");
        assert_eq!((result.status, result.displays.len()), (Status::Failure, 1));
    }
}

mod arrays {
    use super::*;

    #[test]
    fn with_packages_arrays_and_tables_are_summarized_by_shape() {
        let code = "a = np.zeros((3, 4))
s = pd.Series([1, 2], name='n')
f = pd.DataFrame({'x': [1.5], 'y': [2]})
n = np.float64(2.5)";
        let VariableChanges { added, .. } = imported().good(code).variables;
        let added: Vec<_> = added
            .iter()
            .map(|v| (v.name.as_str(), v.type_.as_str(), v.summary.as_str()))
            .collect();
        assert_eq!(
            added[..3],
            [
                ("a", "ndarray", "shape (3, 4), float64"),
                ("s", "Series", "2 values, int64, name n"),
                ("f", "DataFrame", "1 rows × 2 columns: x float64, y int64"),
            ]
        );
        assert_eq!((added[3].0, added[3].1), ("n", "float64"));
        assert!(added[3].2.contains("2.5"), "{}", added[3].2);
    }

    #[test]
    fn with_packages_changes_in_place_are_seen() {
        let session = imported();
        session.good(
            "a = np.zeros(10)
f = pd.DataFrame({'x': [1, 2], 's': ['a', 'b']})
s = pd.Series([1, 2])
big = np.zeros(10**6)
quiet = np.ones(3)",
        );
        for (code, name) in [
            ("a[3] = 1", "a"),
            ("a += 1", "a"),
            ("f['y'] = 3", "f"),
            ("f.loc[0, 'x'] = 9", "f"),
            ("f.loc[1, 's'] = 'z'", "f"),
            ("f.drop(columns='y', inplace=True)", "f"),
            ("s.iloc[0] = 7", "s"),
            ("big += 1", "big"),
        ] {
            let changed: Vec<_> = session
                .good(code)
                .variables
                .changed
                .into_iter()
                .map(|change| change.name)
                .collect();
            assert_eq!(changed, [name], "{code}");
        }
        assert!(
            session
                .good("a.sum(), f.describe(), s.mean(), big.max(), quiet.sum()")
                .variables
                .is_empty()
        );
    }

    #[test]
    fn with_packages_an_array_over_the_memory_limit_is_a_memory_error() {
        let session = imported();
        let error = session.run("np.ones(10**11)").error.unwrap();
        assert!(
            error.traceback.contains("MemoryError"),
            "{}",
            error.traceback
        );
        assert_eq!(session.value("int(np.ones(10**6).sum())"), "1000000");
    }

    #[test]
    fn with_packages_a_fitted_model_lasts() {
        let session = session();
        session.good(
            "from sklearn.linear_model import LinearRegression
model = LinearRegression().fit([[1], [2], [3]], [2, 4, 6])",
        );
        assert_eq!(
            session.value("round(float(model.predict([[10]])[0]), 6)"),
            "20.0"
        );
    }

    #[test]
    fn with_packages_compute_reads_tables() {
        let session = imported();
        session.good("frame = pd.DataFrame({'x': [1, 2, 3]})");
        let computed =
            crate::support::wait(session.compute("int(frame['x'].sum())", "a sum")).unwrap();
        assert_eq!(computed.result.as_deref(), Some("6"), "{computed:?}");
    }
}

#[test]
fn with_packages_a_result_says_how_it_ran() {
    assert_eq!(session().good("1").strategy, Strategy::Process);
}
