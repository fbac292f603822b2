//! Finds a model where the user chose none: by a key in the environment, or at a server on this machine.

use cellblock_model::{CapabilityOverrides, ModelChoice};
use futures_util::future::join_all;
use reqwest::Url;
use serde_json::Value;
use std::time::Duration;

/// The variable with the addresses of servers to look at, in place of the usual ones: base URLs with spaces between them, or
/// nothing to look at none.
pub const LOCAL_SERVERS_VARIABLE: &str = "CELLBLOCK_LOCAL_SERVERS";

/// Keys of providers, and the model that is taken where only the key is set: good at code, not the most expensive.
const PROVIDERS: &[Provider] = &[
    Provider {
        name: "OpenAI",
        variable: "OPENAI_API_KEY",
        base_url: "https://api.openai.com/v1",
        model: "gpt-4o-mini",
    },
    Provider {
        name: "Anthropic",
        variable: "ANTHROPIC_API_KEY",
        base_url: "https://api.anthropic.com/v1",
        model: "claude-sonnet-4-5",
    },
    Provider {
        name: "DashScope",
        variable: "DASHSCOPE_API_KEY",
        base_url: "https://dashscope.aliyuncs.com/compatible-mode/v1",
        model: "qwen-plus",
    },
    Provider {
        name: "OpenRouter",
        variable: "OPENROUTER_API_KEY",
        base_url: "https://openrouter.ai/api/v1",
        model: "openai/gpt-4o-mini",
    },
];

/// Servers and the ports that they usually have, in the order in which they are preferred.
const SERVERS: &[(&str, &str)] = &[
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
];

/// A server on this machine answers at once, or there is none.
const SERVER_TIME_LIMIT: Duration = Duration::from_millis(800);
/// The longest list of models that is read.
const MAX_LIST_BYTES: usize = 1_000_000;

struct Provider {
    name: &'static str,
    variable: &'static str,
    base_url: &'static str,
    model: &'static str,
}

/// The search for a model that the user did not choose.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    servers: Vec<(String, String)>,
}

/// A model that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundModel {
    /// The choice of the model: its name, the address of its endpoint, what the endpoint can do.
    pub choice: ModelChoice,
    /// Why this model: `the key in OPENAI_API_KEY`, or `Ollama on this machine`.
    pub reason: String,
}

impl Discovery {
    /// A search at the usual addresses, or at those that [`LOCAL_SERVERS_VARIABLE`] names. `variable` reads an environment
    /// variable.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Discovery {
        let servers = match variable(LOCAL_SERVERS_VARIABLE) {
            Some(named) => named
                .split_whitespace()
                .map(|url| ("the server".to_owned(), url.to_owned()))
                .collect(),
            None => SERVERS
                .iter()
                .map(|(name, url)| ((*name).to_owned(), (*url).to_owned()))
                .collect(),
        };
        Discovery { servers }
    }

    /// The default model of the first provider whose key is set.
    pub fn by_key(&self, variable: impl Fn(&str) -> Option<String>) -> Option<FoundModel> {
        let is_set = |name: &str| variable(name).is_some_and(|key| !key.trim().is_empty());
        let provider = PROVIDERS
            .iter()
            .find(|provider| is_set(provider.variable))?;
        Some(FoundModel {
            choice: ModelChoice {
                model: Some(provider.model.to_owned()),
                base_url: Some(provider.base_url.to_owned()),
                ..ModelChoice::default()
            },
            reason: format!("{}, by the key in {}", provider.name, provider.variable),
        })
    }

    /// The first model of the first server that answers. All servers are asked side by side.
    pub async fn by_server(&self) -> Option<FoundModel> {
        let client = client()?;
        let asked = self
            .servers
            .iter()
            .map(|(name, url)| ask(&client, name, url));
        join_all(asked).await.into_iter().flatten().next()
    }

    /// The first model of one endpoint: for a user who named the address alone.
    pub async fn at(&self, base_url: &str) -> Option<FoundModel> {
        ask(&client()?, "the server", base_url).await
    }
}

fn client() -> Option<reqwest::Client> {
    // `ring` is the provider that is quickest to build. A provider that the program has installed before stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(SERVER_TIME_LIMIT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .ok()
}

async fn ask(client: &reqwest::Client, name: &str, base_url: &str) -> Option<FoundModel> {
    let base_url = base_url.trim_end_matches('/');
    let list = get(client, &format!("{base_url}/models")).await?;
    let models = list.get("data")?.as_array()?;
    let usable = models.iter().find(|model| is_chat_model(model))?;
    let model = usable.get("id")?.as_str()?.to_owned();
    let is_llama_cpp = usable.get("owned_by").and_then(Value::as_str) == Some("llamacpp");
    let context_tokens = match usable.get("max_model_len").and_then(Value::as_u64) {
        Some(tokens) => Some(tokens),
        None if is_llama_cpp => context_of_llama_cpp(client, base_url).await,
        None => None,
    };
    let choice = ModelChoice {
        model: Some(model),
        base_url: Some(base_url.to_owned()),
        capabilities: CapabilityOverrides {
            context_tokens,
            // All four servers hold a reply to a schema.
            json_schema: Some(true),
            ..CapabilityOverrides::default()
        },
        ..ModelChoice::default()
    };
    Some(FoundModel {
        choice,
        reason: format!("{name} on this machine, {base_url}"),
    })
}

/// Whether a model of a list can chat. Embedding models are in the same list.
fn is_chat_model(model: &Value) -> bool {
    let id = model.get("id").and_then(Value::as_str).unwrap_or_default();
    let id = id.to_lowercase();
    !id.is_empty()
        && !["embed", "rerank", "bge-", "whisper"]
            .iter()
            .any(|word| id.contains(word))
}

/// The context that llama.cpp's server was started with.
async fn context_of_llama_cpp(client: &reqwest::Client, base_url: &str) -> Option<u64> {
    let mut url = Url::parse(base_url).ok()?;
    url.set_path("/props");
    let properties = get(client, url.as_str()).await?;
    properties
        .pointer("/default_generation_settings/n_ctx")?
        .as_u64()
}

async fn get(client: &reqwest::Client, url: &str) -> Option<Value> {
    let response = client.get(url).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let mut response = response;
    let mut text = Vec::new();
    while let Some(piece) = response.chunk().await.ok()? {
        text.extend_from_slice(&piece);
        if text.len() > MAX_LIST_BYTES {
            return None;
        }
    }
    serde_json::from_slice(&text).ok()
}
