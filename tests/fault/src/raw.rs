//! Requests over a plain socket: exactly these bytes, right or wrong, and what is answered.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest any answer may take, on a machine that is busy.
const WITHIN: Duration = Duration::from_secs(60);
/// Between the parts of a form.
pub const BOUNDARY: &str = "----between";

/// A request, byte for byte.
#[derive(Clone, Debug)]
pub struct Request {
    head: String,
    body: Vec<u8>,
    /// What is said of the body's length, whatever is sent of it.
    promised: Option<usize>,
}

/// What was answered.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The head, in small letters.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request of that method for that path, with that key.
    pub fn new(method: &str, path: &str, key: &str) -> Self {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        Self { head, body: Vec::new(), promised: None }
            .header("authorization", &format!("Bearer {key}"))
    }

    /// An upload of that form, which may be any bytes.
    pub fn upload(key: &str, form: impl Into<Vec<u8>>) -> Self {
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        Self::new("POST", "/v1/files", key).header("content-type", &kind).body(form)
    }

    /// A JSON body.
    pub fn json(self, body: impl Into<Vec<u8>>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    /// One more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.head += &format!("{name}: {value}\r\n");
        self
    }

    /// With other words in its head.
    #[must_use]
    pub fn replace(mut self, words: &str, by: &str) -> Self {
        self.head = self.head.replace(words, by);
        self
    }

    /// These bytes as its body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Says that there are so many bytes more than are sent.
    pub fn promising(mut self, more: usize) -> Self {
        self.promised = Some(self.body.len() + more);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let length = self.promised.unwrap_or(self.body.len());
        let head = format!("{}content-length: {length}\r\n\r\n", self.head);
        [head.as_bytes(), &self.body].concat()
    }

    /// Sends it, and reads what is answered. The connection stays open while it waits.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn send(&self, to: SocketAddr) -> Response {
        let response = self.try_send(to).await;
        response.unwrap_or_else(|| panic!("no whole answer to {:.200?}", self.head))
    }

    /// The same; none when the connection ends without an answer.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn try_send(&self, to: SocketAddr) -> Option<Response> {
        let asked = async {
            let stream = TcpStream::connect(to).await.expect("it listens");
            let (mut from, mut into) = stream.into_split();
            let (bytes, mut said) = (self.bytes(), Vec::new());
            // A server that has seen enough may answer before it has read everything.
            let (_, read) = tokio::join!(into.write_all(&bytes), from.read_to_end(&mut said));
            read.ok().filter(|bytes| *bytes > 0).map(|_| said)
        };
        let said = tokio::time::timeout(WITHIN, asked).await;
        Some(Response::read(&said.unwrap_or_else(|_| panic!("no end of {:.200?}", self.head))?))
    }

    /// Sends what there is of it and keeps the connection, unanswered; dropping that cuts it.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub async fn begin(&self, to: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(to).await.expect("it listens");
        stream.write_all(&self.bytes()).await.expect("a beginning is taken");
        stream
    }
}

impl Response {
    fn read(said: &[u8]) -> Self {
        let end = said.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(said)));
        let head = String::from_utf8_lossy(&said[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = said[end + 4..].to_vec();
        Self { status: status.expect("an answer has a status"), head, body }
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// That it is an error with this status in the API's shape; gives its code.
    ///
    /// # Panics
    /// When it is anything else.
    pub fn refused(&self, status: u16) -> String {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        assert_eq!(self.status, status, "{}\n{text}", self.head);
        let error = &self.json()["error"];
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{text}");
        assert!(error["type"].is_string(), "{text}");
        let fields = error.as_object().expect("an error has fields");
        assert!(fields.contains_key("param"), "{text}");
        error["code"].as_str().unwrap_or_else(|| panic!("no code: {text}")).to_owned()
    }
}

/// A form of these parts: name, file name, content.
pub fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, file, content) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"{file}");
        form.extend_from_slice(head.as_bytes());
        form.extend_from_slice(b"\r\n\r\n");
        form.extend_from_slice(content);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    form
}
