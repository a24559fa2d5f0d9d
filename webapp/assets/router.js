// The pages of the app: which one is shown, when it is mounted, and links that keep the reports, the
// selection and what a page showed when it was left.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const {pages, reports} = window.tilescope.frame;
  const byId = (id) => document.getElementById(id);
  const KEPT = ['report', 'with', 'select'];

  let isStarted = false;
  /** @type {Set<string>} */
  const asked = new Set();
  /** @type {Set<string>} */
  const mounted = new Set();
  // By path: the parameters a page was left with. They hold while the reports are the same.
  /** @type {Record<string, string>} */
  const left = {};
  // By path: the parameters that show the selection there.
  /** @type {Record<string, Record<string, string>>} */
  let places = {};

  const pageAt = (path) => pages.find((page) => page.path === path);

  function text(query) {
    const search = query.toString().replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%2F', '/');
    return search ? '?' + search : '';
  }

  function reportsOf(search) {
    const query = new URLSearchParams(search);
    return ['report', 'with'].map((name) => query.get(name) || '').join();
  }

  // The address of a page from here: as it was left, with the current selection.
  function addressOf(path) {
    const here = new URLSearchParams(location.search);
    const isSame = left[path] !== undefined && reportsOf(left[path]) === reportsOf(location.search);
    const query = new URLSearchParams(isSame ? left[path] : '');
    for (const name of KEPT) {
      if (here.get(name)) query.set(name, here.get(name));
      else query.delete(name);
    }
    for (const [name, value] of Object.entries(places[path] || {})) query.set(name, value);
    return path + text(query);
  }

  function writeLinks() {
    /** @type {NodeListOf<HTMLAnchorElement>} */
    const links = document.querySelectorAll('.menu-link[data-path]');
    for (const link of links) {
      const isHere = link.dataset.path === location.pathname;
      link.href = isHere ? location.pathname + location.search : addressOf(link.dataset.path);
      link.classList.toggle('is-current', isHere);
      if (isHere) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
    }
  }

  function showReports() {
    const query = new URLSearchParams(location.search);
    const shown = {
      'report-baseline': query.get('report') || window.tilescope.newestReport(),
      'report-candidate': query.get('with') || '',
    };
    for (const [id, value] of Object.entries(shown)) {
      const menu = /** @type {HTMLSelectElement} */ (byId(id));
      menu.value = value;
      menu.title = menu.selectedOptions[0]?.textContent || 'Unknown report';
    }
    const hasTwo = shown['report-candidate'] !== '';
    byId('baseline-label').textContent = hasTwo ? 'Baseline' : 'Report';
    for (const id of ['swap-button', 'close-button']) {
      /** @type {HTMLButtonElement} */ (byId(id)).disabled = !hasTwo;
    }
    const known = reports.find((report) => report.id === shown['report-baseline']);
    if (known) window.tilescope.noteRecent(known, reports.find((one) => one.id === shown['report-candidate']));
  }

  function mount(page) {
    if (!isStarted || asked.has(page.name)) return;
    asked.add(page.name);
    clientside.set_props('mount-' + page.name, {data: true});
  }

  // The address has changed: show its page, and tell the page.
  let number = 0;
  function arrive() {
    const page = pageAt(location.pathname);
    for (const one of pages) {
      const place = byId('page-' + one.name);
      if (place) place.hidden = one !== page;
    }
    byId('unknown-page').hidden = page !== undefined;
    document.title = (page ? page.title + ' – ' : '') + 'TileScope';
    if (page) left[page.path] = location.search;
    showReports();
    writeLinks();
    window.tilescope.showSelection();
    if (!page) return;
    if (mounted.has(page.name)) {
      number += 1;
      clientside.set_props('address-' + page.name, {data: number});
    } else {
      mount(page);
    }
    // What was drawn while it was hidden knows no size.
    requestAnimationFrame(() => {
      window.dispatchEvent(new Event('resize'));
      window.dispatchEvent(new Event('tilescope:page'));
    });
  }

  function go(address) {
    history.pushState({}, '', address);
    byId('content').scrollTop = 0;
    arrive();
  }

  clientside.router = {
    // Dash is ready.
    start() {
      isStarted = true;
      arrive();
    },
  };

  window.addEventListener('popstate', arrive);
  window.addEventListener('tilescope:address', arrive);

  // Links between pages load nothing anew.
  document.addEventListener('click', (event) => {
    const link = /** @type {HTMLAnchorElement} */ (
      /** @type {Element} */ (event.target).closest?.('a.page-link, a.menu-link'));
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (link.origin !== location.origin || !pageAt(link.pathname)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });

  // Another report starts with a fresh view.
  function choose(report, candidate) {
    const query = new URLSearchParams({report});
    if (candidate) query.set('with', candidate);
    go(location.pathname + '?' + query);
  }
  const menus = ['report-baseline', 'report-candidate'].map((id) => /** @type {HTMLSelectElement} */ (byId(id)));
  const [baseline, candidate] = menus;
  for (const menu of menus) {
    menu.addEventListener('change', () => choose(baseline.value, candidate.value));
  }
  window.addEventListener('tilescope:reports', () => {
    for (const menu of menus) {
      const chosen = menu.value;
      const none = [...menu.options].filter((option) => option.value === '');
      menu.replaceChildren(...none, ...reports.map((report) => new Option(report.choice, report.id)));
      menu.value = chosen;
    }
  });
  byId('swap-button').addEventListener('click', () => {
    const query = new URLSearchParams(location.search);
    if (!query.get('with')) return;
    const now = query.get('report') || window.tilescope.newestReport();
    window.tilescope.changeView({report: query.get('with'), with: now, select: ''}, true);
  });
  byId('close-button').addEventListener('click', () => {
    window.tilescope.changeView({with: ''}, true);
  });

  window.tilescope = Object.assign(window.tilescope || /** @type {TileScope} */ ({}), {
    go,
    mounted: (name) => { mounted.add(name); },
    setPlaces: (found) => { places = found; writeLinks(); },
  });
})();
