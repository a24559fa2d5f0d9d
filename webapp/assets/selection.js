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
    const address = '/api/selection/' + encodeURIComponent(report) + '?' + new URLSearchParams({what});
    const found = await fetch(address).then((answer) => answer.ok ? answer.json() : null).catch(() => null);
    if (key !== shown) return;
    window.tilescope.setPlaces(found ? found.places : {});
    if (found && found.title) paint(bar, found, query);
    else bar.hidden = true;
  }

  window.tilescope = Object.assign(window.tilescope || /** @type {TileScope} */ ({}), {showSelection: show});
})();
