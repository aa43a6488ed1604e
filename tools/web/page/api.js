// Requests to the program that serves this page. The token is in the part of the address after '#', which browsers do
// not send; it is kept for this tab alone and goes along as a header, so that no other page can ask in our name.

const KEY = "varve-token";

/** Takes the token out of the address, if it is there. False: there is none. */
export function takeToken() {
  const given = location.hash.slice(1);
  if (/^[0-9a-f]{32}$/.test(given)) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", "/");
  }
  return sessionStorage.getItem(KEY) !== null;
}

/** `path` is encoded already: names need not be text. Rejects with a sentence, or an AbortError. */
export async function ask(what, path, parameters = {}, signal = undefined) {
  const query = [];
  if (path !== null) query.push(`path=${path}`);
  for (const [name, value] of Object.entries(parameters)) query.push(`${name}=${encodeURIComponent(value)}`);
  let response;
  try {
    response = await fetch(`/api/${what}?${query.join("&")}`, {
      headers: { Authorization: `Bearer ${sessionStorage.getItem(KEY)}` },
      cache: "no-store",
      signal,
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("varve web does not answer; has it ended?");
  }
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new Error(said.error ?? `the answer was ${response.status}`);
  }
  return response;
}

export async function askJson(what, path, parameters, signal) {
  return (await ask(what, path, parameters, signal)).json();
}
