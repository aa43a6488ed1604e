// Starts the page.

import { askJson, takeToken } from "./api.js";
import { Files } from "./files.js";
import { Viewer } from "./viewer.js";

function report(problem) {
  const place = document.getElementById("problem");
  place.hidden = problem === null;
  place.textContent = problem === null ? "" : problem.message;
}

async function start() {
  if (!takeToken()) {
    report(new Error("The address lacks its token: open the one that varve web printed, with all that follows the #."));
    return;
  }
  try {
    const about = await askJson("about", null);
    document.getElementById("title").textContent = about.title;
    document.title = `${about.title} – Varve`;
    const viewer = new Viewer(about, report);
    await new Files((...chosen) => viewer.show(...chosen), report).start();
  } catch (problem) {
    report(problem);
  }
}

start();
