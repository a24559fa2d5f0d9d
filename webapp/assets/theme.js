// Runs before the first paint: applies the saved colour scheme, or the system's.
(function () {
  'use strict';
  let stored = null;
  try { stored = localStorage.getItem('mantine-color-scheme-value'); } catch (error) { /* private mode */ }
  const dark = stored === 'dark' ||
    (stored !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.setAttribute('data-mantine-color-scheme', dark ? 'dark' : 'light');
  try {
    if (localStorage.getItem('tilescope-menu') === 'narrow') {
      document.documentElement.classList.add('menu-narrow');
    }
  } catch (error) { /* private mode */ }
})();
