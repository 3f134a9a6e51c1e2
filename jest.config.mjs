/** @type {import('jest').Config} */
export default {
  testEnvironment: "node",
  roots: ["<rootDir>/libs", "<rootDir>/apps", "<rootDir>/test"],
  testMatch: ["**/*.spec.ts", "**/*-spec.ts"],
  extensionsToTreatAsEsm: [".ts"],
  moduleNameMapper: {
    // the libraries from their sources, not from dist
    "^nestjs-pg-jobs$": "<rootDir>/libs/jobs/src/index.ts",
    "^nestjs-pg-jobs/([a-z]+)$": "<rootDir>/libs/jobs/src/$1/index.ts",
    "^nestjs-pg-jobs-admin$": "<rootDir>/libs/jobs-admin/src/index.ts",
    "^nestjs-pg-jobs-samples$": "<rootDir>/libs/samples/src/index.ts",
    // nodenext writes './x.js' for './x.ts'
    "^(\\.{1,2}/.*)\\.js$": "$1",
  },
  modulePathIgnorePatterns: ["<rootDir>/dist", "<rootDir>/libs/.*/dist"],
  transform: {
    "^.+\\.ts$": [
      "@swc/jest",
      {
        swcrc: false,
        sourceMaps: "inline",
        module: { type: "es6" },
        jsc: {
          target: "es2023",
          keepClassNames: true,
          parser: { syntax: "typescript", decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
        },
      },
    ],
  },
  // They wait more than they work: five at a time do well on two cores.
  maxWorkers: 5,
  // A minute is longer than any wait of a spec: `until` gives up first, and says on what.
  testTimeout: 60_000,
  globalSetup: "<rootDir>/test/global-setup.mjs",
  globalTeardown: "<rootDir>/test/global-teardown.mjs",
  setupFiles: ["<rootDir>/test/setup-env.mjs"],
  coverageProvider: "v8",
  collectCoverageFrom: ["libs/*/src/**/*.ts", "apps/*/src/**/*.ts", "!**/*.spec.ts", "!**/main.ts"],
};
