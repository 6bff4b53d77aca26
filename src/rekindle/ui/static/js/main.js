// The frame of the pages, and which page an address names. Addresses are `#/jobs/<job>/<page>/…`.
import { connection, declineToken, keepToken, token, tokenWanted, useApi } from "./api.js";
import { html, render, Store, useEffect, useRef, useState, useStore } from "./lib.js";
import { Ago, Dialog, Empty, Problem } from "./parts.js";
import { JobPage } from "./pages/job.js";
import { Jobs } from "./pages/jobs.js";
import { ThemeSwitch } from "./themes.js";

const parse = () =>
  location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .filter(Boolean)
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });

const route = new Store(parse());
addEventListener("hashchange", () => route.set(parse()));

function TokenDialog() {
  const wanted = useStore(tokenWanted);
  const [value, set] = useState("");
  if (!wanted) return null;
  const submit = (event) => {
    event.preventDefault();
    keepToken(value);
    set("");
  };
  return html`<${Dialog} title="This server wants a token" onClose=${declineToken}>
    <p>It was started with a token, which is needed to read, too. It is kept until this tab is closed.</p>
    ${token() && html`<div role="alert"><${Problem} head="The token that this tab keeps is not the right one" /></div>`}
    <form onSubmit=${submit}>
      <label>
        Token
        <input type="password" autocomplete="off" required value=${value} onInput=${(e) => set(e.target.value)} />
      </label>
      <div class="buttons"><button class="button primary">Continue</button></div>
    </form>
  <//>`;
}

function Page({ parts, server }) {
  const [first, id, ...rest] = parts;
  if (first === undefined) return html`<${Jobs} server=${server} />`;
  if (first === "jobs" && id) return html`<${JobPage} key=${id} id=${id} rest=${rest} server=${server} />`;
  return html`<h1 tabindex="-1">Not found</h1>
    <${Empty} title="There is no such page."><a href="#/">All jobs</a><//>`;
}

function App() {
  const parts = useStore(route);
  const { awaySince } = useStore(connection);
  const { data: about } = useApi("about", 0);
  const { data: storages } = useApi("storages", 0);
  const server = about && { version: about.version, actions: about.allow_actions, storages: storages ?? [] };
  const main = useRef();
  const shown = useRef(parts.join("/"));

  // A reader who follows a link by keyboard, or by ear, begins at the top of the page that it leads to.
  useEffect(() => {
    const address = parts.slice(0, 3).join("/");
    if (shown.current === address) return;
    shown.current = address;
    scrollTo(0, 0);
    main.current.focus({ preventScroll: true });
  }, [parts]);

  const skip = (event) => {
    event.preventDefault();
    main.current.focus();
  };
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header class="bar">
      <a class="brand" href="#/"><img src="icon.svg" alt="" />Rekindle</a>
      <div class="tools">
        <span class="live ${awaySince === null ? "" : "away"}">${awaySince === null ? "Live" : "Away"}</span>
        <${ThemeSwitch} />
      </div>
    </header>
    <div role="status">
      ${awaySince !== null &&
      html`<div class="away-banner">
        The server has not answered for <${Ago} ms=${awaySince} suffix="" />. What you see is what it said last. Is
        rekindle ui running?
      </div>`}
    </div>
    <main id="main" ref=${main} tabindex="-1"><${Page} parts=${parts} server=${server} /></main>
    <footer>${server && html`Rekindle ${server.version} · ${server.storages.map((one) => one.location).join(", ")}`}</footer>
    <${TokenDialog} />`;
}

render(html`<${App} />`, document.getElementById("app"));
