// From the address to a page and back. State that a reader may want to keep is in the address.

/** Finds {page, params} for a path; patterns are like /topics/:name. */
export function match(pages, path) {
  for (const page of pages)
    for (const pattern of page.paths) {
      const params = matchOne(pattern, path);
      if (params) return { page, params };
    }
  return null;
}

function matchOne(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params = {};
  for (let i = 0; i < wanted.length; i += 1) {
    if (wanted[i].startsWith(":")) {
      if (given[i] === "") return null;
      try {
        params[wanted[i].slice(1)] = decodeURIComponent(given[i]);
      } catch {
        return null;
      }
    } else if (wanted[i] !== given[i]) return null;
  }
  return params;
}

export function navigate(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  window.dispatchEvent(new CustomEvent("ottla:moved"));
}

/** Changes the query of the address in place, without mounting the page anew. */
export function keepInAddress(values) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  history.replaceState(null, "", url);
}
