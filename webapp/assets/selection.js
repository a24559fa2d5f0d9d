// What is selected, on all pages: a bar with its name and links to where it is shown.
(function () {
  'use strict';
  let shown = '';

  function link(page, query) {
    const anchor = document.createElement('a');
    anchor.className = 'page-link';
    anchor.href = page.path + '?' + query;
    anchor.textContent = page.title;
    return anchor;
  }

  function close(bar) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'icon-button';
    button.title = 'Clear the selection';
    button.setAttribute('aria-label', 'Clear the selection');
    button.textContent = '×';
    button.addEventListener('click', () => {
      bar.hidden = true;
      window.tilescope.changeView({select: ''}, false);
    });
    return button;
  }

  function paint(bar, found, query) {
    const {pages} = window.tilescope.frame;
    const title = document.createElement('b');
    title.textContent = found.title;
    const detail = document.createElement('span');
    detail.className = 'selection-detail';
    detail.textContent = found.detail;
    const links = document.createElement('span');
    links.className = 'selection-links';
    for (const page of pages) {
      if (!found.places[page.path] || page.path === location.pathname) continue;
      const own = new URLSearchParams(found.places[page.path]);
      for (const name of ['report', 'with', 'select']) if (query.get(name)) own.set(name, query.get(name));
      links.append(link(page, own));
    }
    bar.replaceChildren(title, detail, links, close(bar));
    bar.hidden = false;
  }

  // What a report says of a thing; null if the server does not answer.
  function ask(report, what) {
    const address = '/api/selection/' + encodeURIComponent(report) + '?' + new URLSearchParams({what});
    return fetch(address).then(window.tilescope_text.read).catch(() => null);
  }

  async function show() {
    const bar = document.getElementById('selection-bar');
    const query = new URLSearchParams(location.search);
    const what = query.get('select') || '';
    const report = query.get('report') || window.tilescope.newestReport();
    const key = [what, report, location.pathname, query.get('with')].join('\n');
    if (key === shown) return;
    shown = key;
    if (!what || !window.tilescope.isKnown(report)) {
      bar.hidden = true;
      window.tilescope.setPlaces({});
      return;
    }
    let found = await ask(report, what);
    const candidate = query.get('with');
    if (found && !found.title && candidate) {
      const other = await ask(candidate, what);
      if (other && other.title) found = {...other, detail: other.detail + '; in the candidate only', places: {}};
    }
    if (key !== shown) return;
    if (!found) shown = '';  // the server does not answer, which the page says: ask again next time
    window.tilescope.setPlaces(found && found.ok ? found.places : {});
    if (found && found.title) paint(bar, found, query);
    else if (found) paintUnknown(bar, found.detail || found.message);
    else bar.hidden = true;
  }

  // The selection of the address is in none of the reports.
  function paintUnknown(bar, sentence) {
    const title = document.createElement('b');
    title.textContent = 'Selection not found';
    const detail = document.createElement('span');
    detail.className = 'selection-detail';
    detail.textContent = sentence;
    bar.replaceChildren(title, detail, close(bar));
    bar.hidden = false;
  }

  window.tilescope = Object.assign(window.tilescope || /** @type {TileScope} */ ({}), {showSelection: show});
})();
