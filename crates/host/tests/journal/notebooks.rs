//! A journal as a notebook.

use crate::scene::Scene;
use crate::support::{builder, packages};
use cellblock_host::journal::notebook;
use serde_json::json;

#[test]
fn cells_become_cells_with_their_outputs() {
    let scene = Scene::new();
    let session = scene.open(builder().import("math").variable("n", 4));
    session.good("import sys; print('out'); print('err', file=sys.stderr); math.sqrt(n)");
    session.run("1/0");
    let journal = scene.close(session);
    let notebook = notebook(&journal);
    assert_eq!(
        (&notebook["nbformat"], &notebook["nbformat_minor"]),
        (&json!(4), &json!(5))
    );
    let [first, second, third] = &notebook["cells"].as_array().unwrap()[..] else {
        panic!("{notebook}");
    };
    assert_eq!(first["source"], "import math\nn = 4");
    assert_eq!(
        second["outputs"],
        json!([
            {"output_type": "stream", "name": "stdout", "text": "out\n"},
            {"output_type": "stream", "name": "stderr", "text": "err\n"},
            {"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": "2.0"}, "metadata": {}},
        ])
    );
    assert_eq!(third["outputs"][0]["ename"], "ZeroDivisionError");
    assert_eq!(
        (&third["id"], &third["execution_count"], &third["cell_type"]),
        (&json!("cell-2"), &json!(2), &json!("code"))
    );
}

#[test]
fn pictures_and_tables_are_there() {
    let scene = Scene::new();
    let session = scene.open(packages());
    session.good("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()");
    session.good("import pandas as pd\npd.DataFrame({'a': [1, 2]})");
    let journal = scene.close(session);
    let notebook = notebook(&journal);
    let [plot, table] = &notebook["cells"].as_array().unwrap()[..] else {
        panic!("{notebook}");
    };
    let picture = plot["outputs"][0]["data"]["image/png"].as_str().unwrap();
    assert!(picture.starts_with("iVBOR"), "{picture}");
    let html = table["outputs"][0]["data"]["text/html"].as_str().unwrap();
    assert!(html.contains("<table"), "{html}");
}
