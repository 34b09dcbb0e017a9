//! Roles read back.

use windrow_domain::Role;

#[test]
fn a_role_reads_back_and_nothing_else_is_one() {
    for role in Role::ALL {
        assert_eq!(role.as_str().parse(), Ok(role));
        assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        assert_eq!(role.to_string(), role.as_str());
    }
    for word in ["", "Admin", "root", "member "] {
        assert!(word.parse::<Role>().unwrap_err().to_string().contains("is not a role"));
    }
}
