//! A form as it arrives: in time, within its size, and with no field that nobody knows (I-37, I-39).

use crate::http::App;
use crate::http::problem::Refused;
use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use protocol::code::Code;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long a form may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

/// The fields of a form. How large it may be is said beside its route.
#[derive(Debug)]
pub(super) struct Posted<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Posted<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refused> {
        match tokio::time::timeout(ARRIVES_WITHIN, Form::<T>::from_request(request, app)).await {
            Ok(Ok(Form(form))) => Ok(Posted(form)),
            Ok(Err(rejection)) => Err(unreadable(&rejection)),
            Err(_) => Err(Refused::new(Code::InvalidRequest, "This form did not arrive in time.")),
        }
    }
}

/// A form that does not read, such as one that names a person (C-177).
fn unreadable(rejection: &FormRejection) -> Refused {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Refused::new(Code::RequestTooLarge, "This form is too large.");
    }
    if rejection.body_text().contains("unknown field") {
        return Refused::new(Code::UnknownField, "This form has a field that nobody knows.");
    }
    Refused::new(Code::InvalidRequest, "This form cannot be read.")
}
