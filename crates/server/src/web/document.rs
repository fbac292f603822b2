//! A notebook as a document that stands alone: one HTML file without scripts.

use super::escape::escaped;
use super::notebook;

/// What the document allows itself, wherever it is opened: no script, no network.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
/// The colours follow the reader's.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{max-width:52rem;margin:2rem auto;padding:0 1rem;font:16px/1.55 system-ui,sans-serif;background:light-dark(#faf9f6,#141412);color:light-dark(#1d1b18,#efece4)}\
pre{overflow:auto;margin:.6rem 0;padding:.7rem .9rem;border-radius:8px;font:13px/1.5 ui-monospace,monospace;white-space:pre-wrap}\
pre.code{background:light-dark(#f3f1ec,#1f1f1b)}pre.output{border-left:3px solid light-dark(#cbc5b9,#48463f)}\
img{max-width:100%}table{border-collapse:collapse}td,th{border:1px solid light-dark(#e4e0d8,#2f2e29);padding:.2rem .6rem}";

/// The whole document. `None` if the source is no notebook.
pub(crate) fn of_notebook(title: &str, source: &str) -> Option<String> {
    let body = notebook::whole_to_html(source)?;
    let title = escaped(title);
    Some(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n{body}\n</body></html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::of_notebook;

    #[test]
    fn a_document_shows_pictures_and_runs_nothing() {
        let source = r##"{"cells":[{"cell_type":"code","source":"show()","outputs":[
            {"data":{"image/png":"aGk=\n","text/html":"<script>alert(1)</script>"}},
            {"data":{"image/png":"\"onload=alert(1)","text/plain":"bad"}}]}]}"##;
        let html = of_notebook("<b>Cells</b>", source).unwrap();
        assert!(
            html.contains("<title>&lt;b&gt;Cells&lt;/b&gt;</title>"),
            "{html}"
        );
        assert!(
            html.contains("src=\"data:image/png;base64,aGk=\""),
            "{html}"
        );
        assert!(
            !html.contains("script>") && !html.contains("onload"),
            "{html}"
        );
    }
}
